#!lua
-- tally_settle: record that no member has a mark from before the conversation became large.
-- Atomic because it must not bring back a hash of another epoch.
-- KEYS  tally
-- ARGV  epoch  line  ttl_s
-- returns 1
-- cost O(1)
redis.call('HSET', KEYS[1], 'settled', ARGV[1] .. ' ' .. ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
