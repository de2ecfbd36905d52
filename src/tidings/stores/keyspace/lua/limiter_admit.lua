#!lua
-- limiter_admit: admit as many of `wanted` requests of one user as the sliding window allows, exactly.
-- Atomic because counting and adding must see the same window.
-- KEYS  rate
-- ARGV  window_us  limit  wanted  token  is_whole
--       token: unique per call, members are token:1 .. token:n; is_whole: 1 = all of them or none; time: server TIME
-- returns {admitted, remaining, retry_after_us, reset_us}
--         retry_after_us: when the next slot frees, or as many as a whole request wants; 0 if there are enough
-- cost O(log n + expired)
local rate = KEYS[1]
local window, limit, wanted, token = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local is_whole = ARGV[5] == '1'

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', rate, '-inf', now - window)
local used = redis.call('ZCARD', rate)
-- A clock that was set back leaves slots of the future. They must refuse nobody, so they go before a refusal.
if wanted == 0 or used + wanted > limit then
  used = used - redis.call('ZREMRANGEBYSCORE', rate, string.format('(%d', now), '+inf')
end
local admitted = math.min(wanted, math.max(0, limit - used))
if is_whole and admitted < wanted then
  admitted = 0
end
if admitted > 0 then
  local add = {}
  for i = 1, admitted do
    add[2 * i - 1] = now
    add[2 * i] = token .. ':' .. i
  end
  redis.call('ZADD', rate, unpack(add))
  redis.call('PEXPIRE', rate, math.ceil(window / 1000))
end
local remaining = limit - used - admitted
local is_refused = is_whole and admitted < wanted
if remaining > 0 and not is_refused then
  return {admitted, remaining, 0, window}
end
-- More may be in the window than the limit is now: then the slot is free when all that is too much has left.
local over = used + admitted - limit
if is_refused then
  over = used + wanted - limit - 1
end
local next_out = redis.call('ZRANGE', rate, over, over, 'WITHSCORES')
local free_us = next_out[2] and (tonumber(next_out[2]) + window - now + 1) or window
return {admitted, math.max(0, remaining), free_us, window}
