#!lua
-- inbox_begin: begin the rebuild of a COLD user, or say that it is under way. From here on every change is recorded in
-- the mark hash, and inbox_install takes it in.
-- Atomic because two nodes must not both believe that the recorded changes are complete for what they read.
-- KEYS  mark
-- ARGV  epoch  token  wait_ms  ttl_s  is_begun
--       wait_ms: a node that is silent for this long has given up; is_begun 1: the caller began it, and must not
--       begin anew, since changes that were recorded meanwhile may be lost
-- returns 1 warm already, 0 the caller rebuilds, -1 another node does
-- cost O(1)
-- include mark
local mark, token = KEYS[1], ARGV[1] .. ':' .. ARGV[2]
if totals_of(mark, ARGV[1]) then
  return 1
end
local m = redis.call('HMGET', mark, ':begun', ':beat', ':gen', ':put')
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local beat = string.format('%.0f', now_us)
if m[1] == token then
  redis.call('HSET', mark, ':beat', beat)
  return 0
end
if ARGV[5] == '1' then
  return -1
end
local is_same_life = m[1] and string.sub(m[1], 1, #ARGV[1] + 1) == ARGV[1] .. ':'
-- A beat from the future is of a server whose clock was set back: it says nothing about a node that lives.
if is_same_life and math.abs(now_us - tonumber(m[2])) < tonumber(ARGV[3]) * 1000 then
  return -1
end
-- Numbers of changes begin at the time of day, so that none is ever used twice, a flushed keyspace included.
local gen = math.max(now_us, (m[3] or 0) + 1)
redis.call('UNLINK', mark)
redis.call('HSET', mark, ':begun', token, ':beat', beat, ':gen', string.format('%.0f', gen))
if m[4] then
  redis.call('HSET', mark, ':put', m[4])
end
redis.call('EXPIRE', mark, ARGV[4])
return 0
