#!lua
-- receipts_lowest: the lowest marks of all members but one.
-- Atomic because both marks and the built marker must be of one moment.
-- KEYS  conv  delivered  readby
-- ARGV  epoch  members_seq  but
-- returns {} = COLD (not built in this epoch for these members, or some mark was lost since), else {delivered, read}
-- cost O(log n)
local built = redis.call('HGET', KEYS[1], 'ticks')
local answer = {}
for i = 2, 3 do
  if built ~= ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. redis.call('ZCARD', KEYS[i]) then
    return {}
  end
  local low = redis.call('ZRANGE', KEYS[i], 0, 1, 'WITHSCORES')
  local at = low[1] == ARGV[3] and 4 or 2
  answer[i - 1] = tonumber(low[at] or 0)
end
return answer
