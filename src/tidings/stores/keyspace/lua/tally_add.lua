#!lua
-- tally_add: show a batch of a large conversation to all its members at once.
-- Atomic because both sets, their sizes and the floor must move together.
-- KEYS  tally  rev
-- ARGV  epoch  line  keep  ttl_s  rev  last_ms  removed_count  [removed_seq ...  word ...]
--       line: when the conversation became large, ms; keep: how many messages are kept; rev: the name of this change,
--       which no other has; last_ms 0: the inbox does not move; word: "number sender mentioned ..." of a message that
--       counts
-- returns {is_open, is_settled}: is_open 0 = COLD, nothing was done and the next reader builds it from the tables;
--         is_settled 0 = members may have marks from before the conversation became large
-- cost O((removed + words) log n)
-- include tally
local tally, epoch, line, keep, ttl_s = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local removed_count = tonumber(ARGV[7])
moved(KEYS[2], epoch, ARGV[5], ttl_s)
local is_settled = redis.call('HGET', tally, 'settled') == epoch .. ' ' .. line and 1 or 0
local t = opened(tally, epoch, line)
if not t then
  local held = redis.call('HGET', tally, 'line')
  if held and tonumber(held) < tonumber(line) then -- it was large before, and small in between
    redis.call('HDEL', tally, 'state')
    redis.call('HSET', tally, 'line', line)
  end
  return {0, is_settled}
end
for i = 8, 7 + removed_count do
  for _, word in ipairs(redis.call('ZRANGE', tally .. ':seq', ARGV[i], ARGV[i], 'BYSCORE')) do
    take_out(tally, word)
  end
  if not t.is_warm then
    redis.call('ZADD', tally .. ':gone', ARGV[i], ARGV[i])
    redis.call('EXPIRE', tally .. ':gone', ttl_s)
  end
end
for i = 8 + removed_count, #ARGV do
  local seq = string.match(ARGV[i], '^%d+')
  if tonumber(seq) > t.floor and (t.is_warm or not redis.call('ZSCORE', tally .. ':gone', seq)) then
    put_in(tally, ARGV[i])
  end
end
local size = redis.call('ZCARD', tally .. ':seq')
if size > keep + 100 then -- some at a time: a script must stay short
  for _, word in ipairs(redis.call('ZRANGE', tally .. ':seq', 0, size - keep - 1)) do
    take_out(tally, word)
    t.floor = tonumber(string.match(word, '^%d+'))
  end
end
keep_tally(tally, ttl_s, t.floor, math.max(t.last_ms, tonumber(ARGV[6])))
return {1, is_settled}
