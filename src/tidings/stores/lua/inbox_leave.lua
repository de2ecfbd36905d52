#!lua
-- inbox_leave: a conversation leaves a user's inbox, and its count leaves the totals.
-- Atomic because inbox size, mark and totals must agree.
-- KEYS  inbox  mark  unread
-- ARGV  epoch  conversation_id  cap  ttl_s
-- returns state: 1 warm, -1 the user is COLD (:gen raised)
-- cost O(log n)
local inbox, mark, unread, id = KEYS[1], KEYS[2], KEYS[3], ARGV[2]
redis.call('UNLINK', unread)
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', id)
if m[1] ~= ARGV[1] or not m[2] then
  if redis.call('HINCRBY', mark, ':gen', 1) == 1 then
    redis.call('EXPIRE', mark, ARGV[4])
  end
  return -1
end
local was_there = redis.call('ZREM', inbox, id) == 1
if was_there then
  redis.call('HINCRBY', mark, '*', -1)
end
if m[5] then
  local seen, count, floor = string.match(m[5], '^%d+ %d+ (%d+) (%d+) %d+ (%d+) ')
  local shown = tonumber(floor) > tonumber(seen) and tonumber(ARGV[3]) or tonumber(count)
  redis.call('HDEL', mark, id)
  redis.call('HSET', mark, ':unread', m[3] - shown, ':convs', m[4] - (shown > 0 and 1 or 0))
elseif was_there then
  redis.call('HINCRBY', mark, ':cold', -1)
end
redis.call('HINCRBY', mark, ':gen', 1)
return 1
