#!lua
-- archive_lease: take or keep the lead among archivers, or give it up.
-- Atomic because two must not find it free at the same moment. It only spares work: what an archiver may change is
-- decided by the fence in the tables.
-- KEYS  archive
-- ARGV  holder  ttl_ms       (ttl_ms 0: give it up)
-- returns {holder, ttl_ms}   who has it now and for how long; an empty holder: nobody
-- cost O(1)
local key, me, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])
local holder = redis.call('GET', key)
if holder and holder ~= me then
  return {holder, redis.call('PTTL', key)}
end
if ttl > 0 then
  redis.call('SET', key, me, 'PX', ttl)
  return {me, ttl}
end
redis.call('DEL', key)
return {'', 0}
