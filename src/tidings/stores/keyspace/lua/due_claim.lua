#!lua
-- due_claim: take conversations whose time has come, and put each off, so that a node that dies in the work loses none.
-- Atomic because two nodes must not take the same one. The set's birth (a member at +inf, never due) shows a node that
-- the set was lost and made again. The time is the server's, as for numbers of messages.
-- KEYS  due
-- ARGV  limit  hold_ms
-- returns {birth, now_ms, until_ms, conversation_id ...}       until_ms: the score of each until it is settled
-- cost O(limit log n)
local due = KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local birth = redis.call('ZRANGE', due, '+inf', '+inf', 'BYSCORE')[1]
if not birth then
  birth = ':' .. time[1] .. '.' .. time[2]
  redis.call('ZADD', due, '+inf', birth)
end
local hold = now + tonumber(ARGV[2])
local answer = {birth, now, hold}
for _, id in ipairs(redis.call('ZRANGE', due, '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[1])) do
  redis.call('ZADD', due, string.format('%.0f', hold), id)
  answer[#answer + 1] = id
end
return answer
