-- tally: the index of one large conversation, by which every member's count is made when somebody looks.
-- The hash holds epoch, line (when the conversation became large, ms), state (`building` or `warm`), build (the name of
-- the build), floor (nothing at or below it is kept), size and marks (how much the two sets hold), last_ms of the last
-- message, and settled (epoch and line: no member has a mark from before). Set `:seq` has each message that counts by
-- its number, as "number sender mentioned ...". Set `:who` has the same by people, in the order of the text: "s" sent
-- by, "n" mentions (`*`: all), "a" sent by, to all, "b" sent by, mentions. Set `:gone` has what a build must leave out.
-- The string `rev` is the epoch and a name that every change replaces: while it stays, every count of the tally stays.
local function moved(key, epoch, name, ttl_s)
  redis.call('SET', key, epoch .. ' ' .. name, 'EX', ttl_s)
end

local function padded(seq)
  return string.format('%016d', tonumber(seq))
end

-- The tally of this epoch and line. nil: COLD.
local function opened(tally, epoch, line)
  local m = redis.call('HMGET', tally, 'epoch', 'line', 'state', 'build', 'floor', 'size', 'marks', 'last_ms')
  if m[1] ~= epoch or m[2] ~= line or not (m[3] and m[4] and m[5] and m[6] and m[7] and m[8]) then
    return nil
  end
  if redis.call('ZCARD', tally .. ':seq') ~= tonumber(m[6]) or redis.call('ZCARD', tally .. ':who') ~= tonumber(m[7]) then
    redis.call('HDEL', tally, 'state') -- a part was lost
    return nil
  end
  local t = {}
  t.is_warm, t.build, t.floor, t.last_ms = m[3] == 'warm', m[4], tonumber(m[5]), tonumber(m[8])
  return t
end

-- The places of one message in `:who`.
local function places_of(word)
  local parts = {}
  for part in string.gmatch(word, '%S+') do
    parts[#parts + 1] = part
  end
  local at, sender = padded(parts[1]), parts[2]
  local places = {'s' .. sender .. ' ' .. at}
  for i = 3, #parts do
    if parts[i] == '*' then
      places[#places + 1] = 'n* ' .. at
      places[#places + 1] = 'a' .. sender .. ' ' .. at
    elseif parts[i] ~= sender then
      places[#places + 1] = 'n' .. parts[i] .. ' ' .. at
      places[#places + 1] = 'b' .. sender .. ' ' .. parts[i] .. ' ' .. at
    end
  end
  return places
end

-- A message to all who are here may have many thousand places, and Lua unpacks fewer than 8,000 values.
local function put_in(tally, word)
  redis.call('ZADD', tally .. ':seq', string.match(word, '^%d+'), word)
  local scored = {}
  for _, place in ipairs(places_of(word)) do
    scored[#scored + 1] = 0
    scored[#scored + 1] = place
  end
  for i = 1, #scored, 1000 do
    redis.call('ZADD', tally .. ':who', unpack(scored, i, math.min(i + 999, #scored)))
  end
end

local function take_out(tally, word)
  redis.call('ZREM', tally .. ':seq', word)
  local places = places_of(word)
  for i = 1, #places, 1000 do
    redis.call('ZREM', tally .. ':who', unpack(places, i, math.min(i + 999, #places)))
  end
end

-- Keep what the hash says of the sets, and the time to live of all.
local function keep_tally(tally, ttl_s, floor, last_ms)
  redis.call('HSET', tally, 'size', redis.call('ZCARD', tally .. ':seq'), 'marks', redis.call('ZCARD', tally .. ':who'),
    'floor', string.format('%d', floor), 'last_ms', string.format('%d', last_ms))
  redis.call('EXPIRE', tally, ttl_s)
  redis.call('EXPIRE', tally .. ':seq', ttl_s)
  redis.call('EXPIRE', tally .. ':who', ttl_s)
end
