#!lua
-- push_put_off: put a push job off to a later try; past the bound the jobs that would wait longest are given up.
-- Atomic because exactly one worker must learn that a job is given up.
-- KEYS  later
-- ARGV  until_ms  jobs_max  job
-- returns {job, ...}       given up
-- cost O(log n)
local later = KEYS[1]
local until_ms, most, job = ARGV[1], tonumber(ARGV[2]), ARGV[3]

redis.call('ZADD', later, until_ms, job)
local over = redis.call('ZCARD', later) - most
if over <= 0 then
  return {}
end
local given_up = {}
local popped = redis.call('ZPOPMAX', later, math.min(over, 100))
for i = 1, #popped, 2 do
  given_up[#given_up + 1] = popped[i]
end
return given_up
