#!lua
-- inbox_begin: take the rebuild of a COLD user in hand, or say that it still is. What changes from here on is noted as
-- changed in the mark hash, and inbox_install takes it in.
-- Atomic because two nodes must not both think that the notes are complete for what they read.
-- KEYS  mark
-- ARGV  epoch  token  wait_ms  ttl_s  is_begun
--       wait_ms: who said nothing for this long has given up; is_begun 1: it was yours, and must not be begun anew,
--       since what was noted meanwhile may be lost
-- returns 1 warm already, 0 it is yours, -1 it is not
-- cost O(1)
local mark, token = KEYS[1], ARGV[1] .. ':' .. ARGV[2]
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', ':begun', ':beat', ':gen', ':put')
if m[1] == ARGV[1] and m[2] and m[3] and m[4] and m[5] then
  return 1
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local beat = string.format('%.0f', now_us)
if m[6] == token then
  redis.call('HSET', mark, ':beat', beat)
  return 0
end
if ARGV[5] == '1' then
  return -1
end
local is_same_life = m[6] and string.sub(m[6], 1, #ARGV[1] + 1) == ARGV[1] .. ':'
if is_same_life and now_us - tonumber(m[7]) < tonumber(ARGV[3]) * 1000 then
  return -1
end
-- Numbers of changes begin at the time of day, so that none is ever used twice, a flushed keyspace included.
local gen = math.max(now_us, (m[8] or 0) + 1)
redis.call('UNLINK', mark)
redis.call('HSET', mark, ':begun', token, ':beat', beat, ':gen', string.format('%.0f', gen))
if m[9] then
  redis.call('HSET', mark, ':put', m[9])
end
redis.call('EXPIRE', mark, ARGV[4])
return 0
