#!lua
-- sent_forget: take back the fast-path note that an id has a number, or set it right, where it still is that number.
-- Atomic because another node may have noted a newer number for the same id.
-- KEYS  conv  sent_now  sent_before
-- ARGV  [id  seq  note ...]                        (note: seq:at of the row that the id really has, '' = it has none)
-- returns how many notes were changed
-- cost O(ids)
local changed, removed = 0, 0
for i = 1, #ARGV, 3 do
  for k = 2, 3 do
    local note = redis.call('HGET', KEYS[k], ARGV[i])
    if note and string.match(note, '^(%d+):') == ARGV[i + 1] then
      changed = changed + 1
      if ARGV[i + 2] ~= '' then
        redis.call('HSET', KEYS[k], ARGV[i], ARGV[i + 2])
      else
        removed = removed + redis.call('HDEL', KEYS[k], ARGV[i])
      end
    end
  end
end
-- A hash that lost its last field is gone, and its time to live with it: conversation_number must give it one again.
if removed > 0 and redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('HDEL', KEYS[1], 'generation')
end
return changed
