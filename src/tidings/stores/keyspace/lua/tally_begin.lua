#!lua
-- tally_begin: begin to build a COLD tally, or join a build that is under way. From here on every change is counted.
-- Atomic because a build must not begin in the middle of another one's.
-- KEYS  tally  rev
-- ARGV  epoch  line  ttl_s  token                        (token: the name of a new build, which nobody else uses)
-- returns {state, build}: 1 warm already, 0 the caller reads the tables and fills it under this name,
--         -1 the conversation became large again later than `line` says: the mark that says so is too old
-- cost O(n) where something is left of an older tally
-- include tally
local tally, epoch, line = KEYS[1], ARGV[1], ARGV[2]
local t = opened(tally, epoch, line)
if t then
  return {t.is_warm and 1 or 0, t.build}
end
local m = redis.call('HMGET', tally, 'epoch', 'line', 'settled')
if m[1] == epoch and m[2] and tonumber(m[2]) > tonumber(line) then
  return {-1, ''}
end
redis.call('UNLINK', tally, tally .. ':seq', tally .. ':who', tally .. ':gone')
redis.call('HSET', tally, 'epoch', epoch, 'line', line, 'state', 'building', 'build', ARGV[4], 'floor', 0, 'size', 0,
  'marks', 0, 'last_ms', 0)
if m[3] then
  redis.call('HSET', tally, 'settled', m[3])
end
redis.call('EXPIRE', tally, ARGV[3])
moved(KEYS[2], epoch, ARGV[4], ARGV[3])
return {0, ARGV[4]}
