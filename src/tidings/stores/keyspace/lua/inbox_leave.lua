#!lua
-- inbox_leave: a conversation leaves a user's inbox, and its count leaves the totals.
-- Atomic because inbox size, mark and totals must agree.
-- KEYS  inbox  mark  unread
-- ARGV  epoch  conversation_id  cap  ttl_s  gen     (gen '': in any case; else only if it is COLD and unchanged since)
-- returns state: 1 warm, 0 it changed meanwhile, -1 all of the user is COLD (recorded as changed)
-- cost O(log n)
-- include mark
local inbox, mark, unread, id = KEYS[1], KEYS[2], KEYS[3], ARGV[2]
local t = totals_of(mark, ARGV[1])
if not t then
  note_cold(mark, id, 0, ARGV[4])
  return -1
end
local m = redis.call('HMGET', mark, id, '~' .. id)
if ARGV[5] ~= '' and m[2] ~= ARGV[5] then
  return 0
end
redis.call('UNLINK', unread, unread .. ':@')
local here, away = redis.call('ZREM', inbox, id), redis.call('ZREM', inbox .. ':archived', id)
local far = t.large > 0 and redis.call('ZREM', inbox .. ':large', id) or 0
t.size, t.archived, t.large = t.size - here, t.archived - away, t.large - far
if here + away + far == 1 and not (m[1] or m[2]) then
  redis.call('HDEL', mark, '*') -- its mark was lost, and the totals with it
  return -1
end
t.muted = t.muted + listed(inbox .. ':muted', nil, id)
t.pinned = t.pinned + listed(inbox .. ':pinned', nil, id)
if m[1] then
  withdraw(inbox, t, id, m[1], ARGV[3])
end
if m[2] then
  t.cold = t.cold - 1
end
redis.call('HDEL', mark, id, '~' .. id)
keep_totals(mark, t)
return 1
