#!lua
-- unread_chill: make one conversation of a user COLD before its rebuild, so that nothing is counted into it meanwhile.
-- Atomic because the count must leave the totals in the moment its mark goes.
-- KEYS  inbox  mark
-- ARGV  epoch  conversation_id  cap  version             (a mark of this version or a later one is good as it is)
-- returns {1, mark} good, {0, gen} COLD as of gen, {2, ''} not in the inbox, {-1, ''} all of the user is COLD
-- cost O(1)
-- include mark
local inbox, mark, id = KEYS[1], KEYS[2], ARGV[2]
local t = totals_of(mark, ARGV[1])
if not t then
  return {-1, ''}
end
local m = redis.call('HMGET', mark, id, '~' .. id)
if m[2] then
  return {0, m[2]}
end
if not m[1] then
  if not home_of(inbox, id) then
    return {2, ''}
  end
  redis.call('HDEL', mark, '*') -- its mark was lost, and the totals with it
  return {-1, ''}
end
if tonumber(string.match(m[1], '^%[(%d+),')) >= tonumber(ARGV[4]) then
  return {1, m[1]}
end
withdraw(inbox, t, id, m[1], ARGV[3])
t.cold = t.cold + 1
keep_totals(mark, t)
local gen = next_gen(mark)
redis.call('HSET', mark, '~' .. id, gen)
redis.call('HDEL', mark, id)
return {0, gen}
