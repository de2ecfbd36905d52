#!lua
-- receipts_raise: a member's marks go forward, never back.
-- Atomic because the caller must learn which stretch is new, once.
-- KEYS  conv  delivered  readby
-- ARGV  epoch  user_id  delivered_seq  read_seq  ttl_s
-- returns {delivered before, read before, is_warm}      is_warm 0: not built in this epoch, so a 0 before says nothing
-- cost O(log n)
local built = redis.call('HGET', KEYS[1], 'ticks')
local before = {}
for i = 2, 3 do
  local mark = tonumber(redis.call('ZSCORE', KEYS[i], ARGV[2]) or 0)
  if tonumber(ARGV[i + 1]) > mark then
    redis.call('ZADD', KEYS[i], ARGV[i + 1], ARGV[2])
    redis.call('EXPIRE', KEYS[i], ARGV[5])
  end
  before[i - 1] = mark
end
before[3] = built and string.sub(built, 1, #ARGV[1] + 1) == ARGV[1] .. ' ' and 1 or 0
return before
