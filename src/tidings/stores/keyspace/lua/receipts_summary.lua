#!lua
-- receipts_summary: the lowest marks of all members but one, and how many of them have one message.
-- Atomic because the marks, the counts and the built marker must be of one moment.
-- KEYS  conv  delivered  readby
-- ARGV  epoch  members_seq  but  seq
-- returns {} = COLD (not built in this epoch for these members, or some mark was lost since), else
--         {lowest delivered, lowest read, how many have received seq, how many have read it}
-- cost O(log n)
local built = redis.call('HGET', KEYS[1], 'ticks')
local answer = {0, 0, 0, 0}
for i = 2, 3 do
  if built ~= ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. redis.call('ZCARD', KEYS[i]) then
    return {}
  end
  local low = redis.call('ZRANGE', KEYS[i], 0, 1, 'WITHSCORES')
  local at = low[1] == ARGV[3] and 4 or 2
  answer[i - 1] = tonumber(low[at] or 0)
  local own = tonumber(redis.call('ZSCORE', KEYS[i], ARGV[3]) or 0)
  answer[i + 1] = redis.call('ZCOUNT', KEYS[i], ARGV[4], '+inf') - (own >= tonumber(ARGV[4]) and 1 or 0)
end
return answer
