#!lua
-- session_release: record when a device's connection ended, unless the device is live on another connection already.
-- Atomic because a late release of the old connection must not erase the lease of the new one.
-- KEYS  session
-- ARGV  device  lease  now_ms  ttl_s
-- returns 1 recorded, 0 the device has another lease
-- cost O(1)
local held = redis.call('HGET', KEYS[1], ARGV[1])
if held and string.match(held, '^(%S+) ') ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], '- ' .. ARGV[3])
if not held then
  redis.call('EXPIRE', KEYS[1], ARGV[4]) -- the hash was lost, and is new
end
return 1
