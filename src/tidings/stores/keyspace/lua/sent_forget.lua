#!lua
-- sent_forget: remove the number that is kept for an id, or correct it, if it still is that number.
-- Atomic because another node may have kept a newer number for the same id.
-- KEYS  conv  sent_now  sent_before
-- ARGV  [id  seq  note ...]                        (note: seq:at of the row that the id has, '' = it has none)
-- returns how many ids were changed
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
-- A hash without a field is gone, and its time to live too: conversation_number must give it one again.
if removed > 0 and redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('HDEL', KEYS[1], 'generation')
end
return changed
