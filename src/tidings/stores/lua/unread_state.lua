#!lua
-- unread_state: one conversation's mark, and the totals.
-- Atomic because both must be of one moment.
-- KEYS  inbox  mark
-- ARGV  epoch  conversation_id                           (conversation_id '': the totals alone)
-- returns {} = COLD, else {total, convs, cold, mark}     mark '': this conversation is COLD, or not in the inbox
-- cost O(1)
local inbox, mark = KEYS[1], KEYS[2]
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', ':put', ARGV[2])
if m[1] ~= ARGV[1] or not (m[2] and m[3] and m[4] and m[5]) then
  return {}
end
local size = tonumber(m[2])
local is_whole = redis.call('ZCARD', inbox) == size and redis.call('HLEN', mark) == 6 + size + (m[6] and 1 or 0)
local is_left_behind = false
if m[6] then
  local now = redis.call('TIME')
  is_left_behind = tonumber(string.match(m[6], '^%d+')) < now[1] * 1000 + now[2] / 1000
end
if is_left_behind or not is_whole then
  redis.call('HDEL', mark, '*', ':put')
  return {}
end
return {tonumber(m[3]), tonumber(m[4]), tonumber(m[5]), m[7] or ''}
