#!lua
-- unread_state: one conversation's mark, and the totals.
-- Atomic because both must be of one moment.
-- KEYS  inbox  mark
-- ARGV  epoch  conversation_id  cap                      (conversation_id '': the totals alone)
-- returns {} = COLD, else {total, convs, cold, mark}     mark '': this conversation is COLD, or not in the inbox
-- cost O(1)
-- include whole
local inbox, mark = KEYS[1], KEYS[2]
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', ':put', ARGV[2])
local packed, put = m[7], m[6]
if not is_whole(inbox, mark, m, ARGV[1], ARGV[3]) then
  return {}
end
if put then -- a marker whose time is over may have made it COLD
  packed = redis.call('HGET', mark, ARGV[2])
end
return {tonumber(m[3]), tonumber(m[4]), tonumber(m[5]), packed or ''}
