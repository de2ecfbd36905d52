#!lua
-- inbox_join: a conversation enters a user's inbox with nothing unread, at its own cursor.
-- Atomic because inbox size, mark and totals must agree.
-- KEYS  inbox  mark  unread
-- ARGV  epoch  conversation_id  score_ms  version  cursor  day  cap  ttl_s
-- returns state: 1 warm, 0 this conversation is COLD, -1 all of the user is (recorded as changed)
-- cost O(log n)
local inbox, mark, unread = KEYS[1], KEYS[2], KEYS[3]
local id, score, version, cursor = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', id, '~' .. id)

local function user_is_cold()
  if score >= tonumber(redis.call('HGET', mark, '+' .. id) or 0) then
    redis.call('HSET', mark, '+' .. id, ARGV[3])
  end
  if redis.call('HLEN', mark) == 1 then
    redis.call('EXPIRE', mark, ARGV[8])
  end
  return -1
end
if m[1] ~= ARGV[1] or not (m[2] and m[3] and m[4] and m[5]) then
  return user_is_cold()
end

local is_new = redis.call('ZADD', inbox, 'GT', score, id) == 1
local is_known = m[6] or m[7]
if is_new and not is_known then
  redis.call('UNLINK', unread)
  if m[2] == '0' then
    redis.call('EXPIRE', inbox, ARGV[8])
  end
  redis.call('HSET', mark, '*', m[2] + 1, id,
    string.format('[%d,%d,%d,0,0,0,%s,[]]', version, cursor, cursor, ARGV[6]))
  return 1
end
if is_new or not is_known then
  redis.call('HDEL', mark, '*') -- the inbox or the mark was lost
  return user_is_cold()
end
local shown, cold = 0, m[5] + 0
if m[6] then
  local held, at, seen, count, _, floor = string.match(m[6], '^%[(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),')
  if tonumber(held) >= version and tonumber(at) >= cursor then
    return 1 -- it joined before
  end
  -- An earlier membership that was never removed, or one whose cursor moved meanwhile: the tables decide.
  shown = tonumber(floor) > tonumber(seen) and tonumber(ARGV[7]) or tonumber(count)
  cold = cold + 1
end
-- An entry came before the join itself. The conversation is COLD until somebody reads it.
redis.call('HDEL', mark, id)
redis.call('HSET', mark, ':cold', cold, ':unread', m[3] - shown, ':convs', m[4] - (shown > 0 and 1 or 0),
  '~' .. id, string.format('%.0f', redis.call('HINCRBY', mark, ':gen', 1)))
return 0
