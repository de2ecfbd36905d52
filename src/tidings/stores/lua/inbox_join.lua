#!lua
-- inbox_join: a conversation enters a user's inbox with nothing unread, at its own cursor.
-- Atomic because inbox size, mark and totals must agree.
-- KEYS  inbox  mark  unread
-- ARGV  epoch  conversation_id  score_ms  version  cursor  day  cap  ttl_s
-- returns state: 1 warm, -1 the user is COLD (:gen raised)
-- cost O(log n)
local inbox, mark, unread = KEYS[1], KEYS[2], KEYS[3]
local id, score, version, cursor = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', id)
if m[1] ~= ARGV[1] or not m[2] then
  if redis.call('HINCRBY', mark, ':gen', 1) == 1 then
    redis.call('EXPIRE', mark, ARGV[8])
  end
  return -1
end
local is_new = redis.call('ZADD', inbox, 'GT', score, id) == 1
if is_new then
  redis.call('HINCRBY', mark, '*', 1)
end
if m[6] then
  local held, at, seen, count, _, floor = string.match(m[6], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ')
  if tonumber(held) > version or (tonumber(held) == version and tonumber(at) >= cursor) then
    return 1
  end
  -- The mark of an earlier membership that was never taken down: its count leaves the totals with it.
  local shown = tonumber(floor) > tonumber(seen) and tonumber(ARGV[7]) or tonumber(count)
  redis.call('HSET', mark, ':unread', m[3] - shown, ':convs', m[4] - (shown > 0 and 1 or 0))
elseif not is_new then
  redis.call('HINCRBY', mark, ':cold', -1)
end
redis.call('UNLINK', unread)
redis.call('HSET', mark, id, string.format('%d %d %d 0 0 0 %s ', version, cursor, cursor, ARGV[6]))
redis.call('HINCRBY', mark, ':gen', 1)
return 1
