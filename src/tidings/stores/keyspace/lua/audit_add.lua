#!lua
-- audit_add: append the audit events that a node has gathered, once.
-- Atomic because a flush whose answer was lost is sent again: the token of the last flush shows that it is there.
-- KEYS  audit  flush
-- ARGV  token  entries_max  ttl_s  flush_ttl_s  [event ...]
-- returns how many were appended
-- cost O(events)
local stream, flush = KEYS[1], KEYS[2]
local token, most = ARGV[1], ARGV[2]
if redis.call('GET', flush) == token then
  return 0
end
for i = 5, #ARGV do
  redis.call('XADD', stream, 'MAXLEN', '~', most, '*', 'event', ARGV[i])
end
redis.call('EXPIRE', stream, ARGV[3])
redis.call('SET', flush, token, 'EX', ARGV[4])
return #ARGV - 4
