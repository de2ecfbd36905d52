#!lua
-- conversation_seed: raise a conversation's counter to what the log says, never lower it, and put it into this epoch.
-- Atomic because a number handed out meanwhile must not be handed out again.
-- KEYS  conv
-- ARGV  epoch  seq  at  members_seq  conv_ttl_s
-- returns seq
-- cost O(1)
local c = redis.call('HMGET', KEYS[1], 'seq', 'at', 'members_seq')
local seq = math.max(tonumber(c[1] or 0), tonumber(ARGV[2]))
local at = math.max(tonumber(c[2] or 0), tonumber(ARGV[3]))
local members_seq = math.max(tonumber(c[3] or 0), tonumber(ARGV[4]))
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'seq', string.format('%d', seq), 'at', string.format('%d', at),
  'members_seq', string.format('%d', members_seq))
redis.call('EXPIRE', KEYS[1], ARGV[5])
return seq
