#!lua
-- unread_chill: make one conversation of a user COLD, so that nothing is counted into what is about to be rebuilt.
-- Atomic because the count must leave the totals in the moment its mark goes.
-- KEYS  mark
-- ARGV  epoch  conversation_id  cap
-- returns {gen, is_warm}       is_warm 0: all of the user is COLD
-- cost O(1)
local mark, id = KEYS[1], ARGV[2]
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', id)
if m[1] ~= ARGV[1] or not m[2] then
  return {tonumber(redis.call('HGET', mark, ':gen') or 0), 0}
end
if m[6] then
  local seen, count, floor = string.match(m[6], '^%d+ %d+ (%d+) (%d+) %d+ (%d+) ')
  local shown = tonumber(floor) > tonumber(seen) and tonumber(ARGV[3]) or tonumber(count)
  redis.call('HSET', mark, ':cold', m[5] + 1, ':unread', m[3] - shown, ':convs', m[4] - (shown > 0 and 1 or 0))
  redis.call('HDEL', mark, id)
end
return {redis.call('HINCRBY', mark, ':gen', 1), 1}
