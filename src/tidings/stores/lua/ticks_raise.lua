#!lua
-- ticks_raise: a member's marks go forward, never back.
-- Atomic because the caller must learn which stretch is new, once.
-- KEYS  delivered  readby
-- ARGV  user_id  delivered_seq  read_seq  ttl_s
-- returns {delivered before, read before}        0: none known
-- cost O(log n)
local d = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
local r = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0)
if tonumber(ARGV[2]) > d then
  redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
  redis.call('EXPIRE', KEYS[1], ARGV[4])
end
if tonumber(ARGV[3]) > r then
  redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
  redis.call('EXPIRE', KEYS[2], ARGV[4])
end
return {d, r}
