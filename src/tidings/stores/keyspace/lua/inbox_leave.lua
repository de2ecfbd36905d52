#!lua
-- inbox_leave: a conversation leaves a user's inbox, and its count leaves the totals.
-- Atomic because inbox size, mark and totals must agree.
-- KEYS  inbox  mark  unread
-- ARGV  epoch  conversation_id  cap  ttl_s  gen     (gen '': in any case; else only if it is COLD and unchanged since)
-- returns state: 1 warm, 0 it changed meanwhile, -1 all of the user is COLD (recorded as changed)
-- cost O(log n)
local inbox, mark, unread, id = KEYS[1], KEYS[2], KEYS[3], ARGV[2]
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', id, '~' .. id)
if m[1] ~= ARGV[1] or not (m[2] and m[3] and m[4] and m[5]) then
  redis.call('HSETNX', mark, '+' .. id, 0)
  if redis.call('HLEN', mark) == 1 then
    redis.call('EXPIRE', mark, ARGV[4])
  end
  return -1
end
if ARGV[5] ~= '' and m[7] ~= ARGV[5] then
  return 0
end
redis.call('UNLINK', unread)
local size, total, convs, cold = m[2] + 0, m[3] + 0, m[4] + 0, m[5] + 0
if redis.call('ZREM', inbox, id) == 1 then
  size = size - 1
  if not (m[6] or m[7]) then
    redis.call('HDEL', mark, '*') -- its mark was lost, and the totals with it
    return -1
  end
end
if m[6] then
  local seen, count, floor = string.match(m[6], '^%[%d+,%d+,(%d+),(%d+),%d+,(%d+),')
  local shown = tonumber(floor) > tonumber(seen) and tonumber(ARGV[3]) or tonumber(count)
  total, convs = total - shown, convs - (shown > 0 and 1 or 0)
end
if m[7] then
  cold = cold - 1
end
redis.call('HDEL', mark, id, '~' .. id)
redis.call('HSET', mark, '*', size, ':unread', total, ':convs', convs, ':cold', cold)
return 1
