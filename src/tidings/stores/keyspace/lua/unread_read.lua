#!lua
-- unread_read: take the messages that a member has read out of the unread set.
-- Atomic because set, mark and totals must move together, in the order of the member's versions.
-- KEYS  mark  unread
-- ARGV  epoch  conversation_id  version  cursor  seen  ranges  cap  ttl_s  [seq ...]
--       version: of the state after this change, 0: only `seen` rises; seen: nothing at or below counts; seqs: newly
--       read above it
-- returns {state, shown, is_capped, total, first, read_seq}   state 1 warm, 0 this conversation is COLD, -1 all of the
--         user is; total -1: not known now
-- cost O(log n + removed)
local mark, unread = KEYS[1], KEYS[2]
local id, version, new_seen, cap = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[7])
local new_cursor, ranges, has_seqs = ARGV[4], ARGV[6], #ARGV > 8

local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', id)
if m[1] ~= ARGV[1] or not (m[2] and m[3] and m[4] and m[5]) then
  redis.call('HSETNX', mark, '+' .. id, 0)
  if redis.call('HLEN', mark) == 1 then
    redis.call('EXPIRE', mark, ARGV[8])
  end
  return {-1, 0, 0, -1, 0, 0}
end
if not m[6] then
  if redis.call('HEXISTS', mark, '~' .. id) == 1 then
    redis.call('HSET', mark, '~' .. id, string.format('%.0f', redis.call('HINCRBY', mark, ':gen', 1)))
  end
  return {0, 0, 0, -1, 0, 0}
end
local total, convs, cold = tonumber(m[3]), tonumber(m[4]), tonumber(m[5])
local held, cursor, seen, count, first, floor, day, held_ranges =
  string.match(m[6], '^%[(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(.*)%]$')
held, seen, count, first, floor = tonumber(held), tonumber(seen), tonumber(count), tonumber(first), tonumber(floor)
local before = floor > seen and cap or count
if version == 0 then
  version, new_cursor, ranges = held, cursor, held_ranges
end
if version < held or (version == held and new_seen <= seen) then
  return {1, before, floor > seen and 1 or 0, cold > 0 and -1 or total, first, tonumber(cursor)}
end
new_seen = math.max(new_seen, seen)

-- A version was missed, or the set is not what the mark says. Or some were read one by one while others had been
-- trimmed off the set: how many of those there are is not known here.
if version > held + 1 or redis.call('ZCARD', unread) ~= count or (has_seqs and floor > new_seen) then
  redis.call('HSET', mark, ':cold', cold + 1, ':unread', total - before, ':convs', convs - (before > 0 and 1 or 0),
    '~' .. id, string.format('%.0f', redis.call('HINCRBY', mark, ':gen', 1)))
  redis.call('HDEL', mark, id)
  return {0, 0, 0, -1, 0, 0}
end

if count > 0 then
  local highest = tonumber(redis.call('ZRANGE', unread, -1, -1)[1])
  if highest <= new_seen then
    redis.call('UNLINK', unread)
    count = 0
  else
    count = count - redis.call('ZREMRANGEBYSCORE', unread, '-inf', new_seen)
    if has_seqs then
      count = count - redis.call('ZREM', unread, unpack(ARGV, 9))
    end
  end
end
if floor > new_seen then
  first = first > new_seen and first or 0
else
  first = count > 0 and tonumber(redis.call('ZRANGE', unread, 0, 0)[1]) or 0
end
local shown = floor > new_seen and cap or count
total = total + shown - before
convs = convs + (shown > 0 and 1 or 0) - (before > 0 and 1 or 0)
redis.call('HSET', mark, ':unread', total, ':convs', convs, id,
  string.format('[%d,%s,%d,%d,%d,%d,%s,%s]', version, new_cursor, new_seen, count, first, floor, day, ranges))
return {1, shown, floor > new_seen and 1 or 0, cold > 0 and -1 or total, first, tonumber(new_cursor)}
