#!lua
-- due_settle: a conversation was checked: take it off, or set the next time, unless a send asked for a check since.
-- Atomic because a send that lowers the score between the check and the removal would be forgotten.
-- KEYS  due
-- ARGV  conversation_id  until_ms  next_ms       (until_ms: its score since the claim; next_ms 0: no next time)
-- returns 1 settled | 0 it has another score by now, and keeps it
-- cost O(log n)
local due, id = KEYS[1], ARGV[1]
local score = redis.call('ZSCORE', due, id)
if not score or tonumber(score) ~= tonumber(ARGV[2]) then
  return 0
end
if ARGV[3] == '0' then
  redis.call('ZREM', due, id)
else
  redis.call('ZADD', due, ARGV[3], id)
end
return 1
