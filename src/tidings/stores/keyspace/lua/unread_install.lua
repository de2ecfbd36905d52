#!lua
-- unread_install: put a rebuilt conversation in place, if it is COLD and unchanged since it was read.
-- Atomic because set, mark and totals must appear together.
-- KEYS  mark  unread  aside
-- ARGV  epoch  conversation_id  gen  packed_mark  count  shown  ttl_s
-- returns 1 installed; 0 not: it changed meanwhile, or the set built aside was lost
-- cost O(1)
-- include jitter
local mark, unread, aside, id, shown = KEYS[1], KEYS[2], KEYS[3], ARGV[2], tonumber(ARGV[6])
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', '~' .. id)
local is_warm = m[1] == ARGV[1] and m[2] and m[3] and m[4] and m[5]
if not is_warm or m[6] ~= ARGV[3] or redis.call('ZCARD', aside) ~= tonumber(ARGV[5]) then
  redis.call('UNLINK', aside)
  return 0
end
if tonumber(ARGV[5]) > 0 then
  redis.call('RENAME', aside, unread)
  redis.call('EXPIRE', unread, jittered(tonumber(ARGV[7])))
else
  redis.call('UNLINK', unread)
end
redis.call('HDEL', mark, '~' .. id)
redis.call('HSET', mark, id, ARGV[4], ':unread', m[3] + shown, ':convs', m[4] + (shown > 0 and 1 or 0),
  ':cold', m[5] - 1)
return 1
