#!lua
-- archive_lease: take or keep the lease of the archiver, or give it up.
-- Atomic because two archivers must not find it free at the same moment. The lease only spares work: the fence in the
-- tables decides which archiver may change rows.
-- KEYS  archive
-- ARGV  holder  ttl_ms       (ttl_ms 0: give it up)
-- returns {holder, ttl_ms}   the node that has it now, and for how long; an empty holder: no node
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
