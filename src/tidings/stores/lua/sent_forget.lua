#!lua
-- sent_forget: take back the fast-path note that an id has a number, where it still is that number.
-- Atomic because another node may have noted a newer number for the same id.
-- KEYS  sent_now  sent_before
-- ARGV  [id  seq ...]
-- returns how many notes were taken back
-- cost O(ids)
local gone = 0
for i = 1, #ARGV, 2 do
  for k = 1, 2 do
    local note = redis.call('HGET', KEYS[k], ARGV[i])
    if note and string.match(note, '^(%d+):') == ARGV[i + 1] then
      gone = gone + redis.call('HDEL', KEYS[k], ARGV[i])
    end
  end
end
return gone
