#!lua
-- unread_state: one conversation's mark, and the totals.
-- Atomic because both must be of one moment.
-- KEYS  inbox  mark
-- ARGV  epoch  conversation_id                           (conversation_id '': the totals alone)
-- returns {} = COLD, else {total, convs, cold, mark}     mark '': this conversation is COLD, or not in the inbox
-- cost O(1)
-- include whole
local inbox, mark = KEYS[1], KEYS[2]
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', ':put', ARGV[2])
if not is_whole(inbox, mark, m, ARGV[1]) then
  return {}
end
return {tonumber(m[3]), tonumber(m[4]), tonumber(m[5]), m[7] or ''}
