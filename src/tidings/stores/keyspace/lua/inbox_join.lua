#!lua
-- inbox_join: a conversation enters a user's inbox with nothing unread, at its own cursor.
-- Atomic because inbox size, mark and totals must agree.
-- KEYS  inbox  mark  unread
-- ARGV  epoch  conversation_id  score_ms  version  cursor  day  flags  pinned_ms  cap  ttl_s  line
--       line: when the conversation became large, ms; 0: it is not
-- returns state: 1 warm, 0 this conversation is COLD, -1 all of the user is (recorded as changed)
-- cost O(log n)
-- include mark
local inbox, mark, unread, ttl_s = KEYS[1], KEYS[2], KEYS[3], ARGV[10]
local id, score, version, cursor = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local t = totals_of(mark, ARGV[1])
if not t then
  note_cold(mark, id, score, ttl_s)
  return -1
end
local m = redis.call('HMGET', mark, id, '~' .. id)
local home = home_of(inbox, id)
local is_new = redis.call('ZADD', home or inbox, 'GT', score, id) == 1
local is_known = m[1] or m[2]
if is_new and not is_known then
  redis.call('ZREM', inbox, id)
  redis.call('UNLINK', unread, unread .. ':@')
  local packed = string.format('[%d,%d,%d,0,0,0,%s,0,%s,%s,[]]', version, cursor, cursor, ARGV[6], ARGV[11], ARGV[7])
  enter(inbox, t, id, packed, ARGV[9], score, tonumber(ARGV[8]), ttl_s)
  keep_totals(mark, t)
  redis.call('HSET', mark, id, packed)
  return 1
end
if is_new or not is_known then
  redis.call('HDEL', mark, '*') -- the inbox or the mark was lost
  note_cold(mark, id, score, ttl_s)
  return -1
end
if m[1] then
  local held, at = string.match(m[1], '^%[(%d+),(%d+),')
  if tonumber(held) >= version and tonumber(at) >= cursor then
    return 1 -- it joined before
  end
  -- An earlier membership that was never removed, or one whose cursor moved meanwhile: the tables decide.
  withdraw(inbox, t, id, m[1], ARGV[9])
  t.cold = t.cold + 1
end
-- An entry came before the join itself. The conversation is COLD until somebody reads it.
keep_totals(mark, t)
redis.call('HDEL', mark, id)
redis.call('HSET', mark, '~' .. id, next_gen(mark))
return 0
