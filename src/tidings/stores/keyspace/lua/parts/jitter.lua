-- jitter: a time to live up to a tenth longer than asked for. Keys that were built together do not expire together.
local function jittered(ttl_s)
  return ttl_s + redis.call('TIME')[2] % (math.floor(ttl_s / 10) + 1)
end
