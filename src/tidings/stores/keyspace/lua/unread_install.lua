#!lua
-- unread_install: put a rebuilt conversation in place, if it is COLD and unchanged since it was read.
-- Atomic because set, mark, filters and totals must appear together.
-- KEYS  inbox  mark  unread  aside
-- ARGV  epoch  conversation_id  gen  packed_mark  count  mentions  pinned_ms  cap  ttl_s  score_ms
--       score_ms: its place as the tables have it; one that was large until now has an older place in the index
-- returns 1 installed; 0 not: it changed meanwhile, or a set built aside was lost
-- cost O(log n)
-- include mark
-- include jitter
local inbox, mark, unread, aside, id = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[2]
local t, ttl_s = totals_of(mark, ARGV[1]), jittered(tonumber(ARGV[9]))
local home = home_of(inbox, id)
local score = home and redis.call('ZSCORE', home, id)
local is_whole = redis.call('ZCARD', aside) == tonumber(ARGV[5])
  and redis.call('ZCARD', aside .. ':@') == tonumber(ARGV[6])
local is_unchanged = t and redis.call('HGET', mark, '~' .. id) == ARGV[3]
if not (is_unchanged and score and is_whole) then
  redis.call('UNLINK', aside, aside .. ':@')
  if is_unchanged and not score then
    redis.call('HDEL', mark, '*') -- the inbox was lost: all of the user is read again
  end
  return 0
end
redis.call('UNLINK', unread, unread .. ':@')
for i, name in ipairs({'', ':@'}) do
  if tonumber(ARGV[4 + i]) > 0 then
    redis.call('RENAME', aside .. name, unread .. name)
    redis.call('EXPIRE', unread .. name, ttl_s)
  end
end
enter(inbox, t, id, ARGV[4], ARGV[8], math.max(tonumber(score), tonumber(ARGV[10])), tonumber(ARGV[7]), ttl_s)
t.cold = t.cold - 1
keep_totals(mark, t)
redis.call('HDEL', mark, '~' .. id)
redis.call('HSET', mark, id, ARGV[4])
return 1
