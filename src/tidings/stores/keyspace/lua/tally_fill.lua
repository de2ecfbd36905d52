#!lua
-- tally_fill: put messages of the tables into a tally that is being built; with the last of them it is warm.
-- Atomic because a message that was deleted meanwhile must stay out, and nobody may read a half-built tally.
-- KEYS  tally
-- ARGV  epoch  line  build  ttl_s  floor  last_ms  is_end  [word ...]
-- returns 1 done, or somebody else was faster; 0 the build was lost: begin again
-- cost O(words log n)
-- include tally
local tally, ttl_s = KEYS[1], ARGV[4]
local t = opened(tally, ARGV[1], ARGV[2])
if not t or t.build ~= ARGV[3] then
  return 0
end
if t.is_warm then
  return 1
end
for i = 8, #ARGV do
  local seq = string.match(ARGV[i], '^%d+')
  -- A post that came meanwhile may have raised the floor: nothing may lie below it.
  if tonumber(seq) > t.floor and not redis.call('ZSCORE', tally .. ':gone', seq) then
    put_in(tally, ARGV[i])
  end
end
keep_tally(tally, ttl_s, math.max(t.floor, tonumber(ARGV[5])), math.max(t.last_ms, tonumber(ARGV[6])))
if ARGV[7] == '1' then
  redis.call('HSET', tally, 'state', 'warm')
  redis.call('UNLINK', tally .. ':gone')
end
return 1
