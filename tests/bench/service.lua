-- wrk: POST one job again and again, each time under another name.
--   wrk -s service.lua URL -- BODY_FILE PLACEHOLDER [HEADER: VALUE]...
-- In the body and in the path "@@" stands for PLACEHOLDER's next value: 32 hex digits, unique.
local body, n, thread = "", 0, 0
local before, after = {}, ""

function setup(t)
  thread = thread + 1
  t:set("id", thread)
end

function init(args)
  local f = assert(io.open(args[1], "rb"))
  body = f:read("*a")
  f:close()
  wrk.method = "POST"
  for i = 2, #args do
    local name, value = args[i]:match("^([^:]+): (.*)$")
    wrk.headers[name] = value
  end
  math.randomseed(os.time() + id)
  run = string.format("%08x%08x", os.time(), math.random(0, 0x7fffffff))
  local from = 1
  while true do
    local at = body:find("@@", from, true)
    if not at then break end
    before[#before + 1] = body:sub(from, at - 1)
    from = at + 2
  end
  after = body:sub(from)
end

function request()
  n = n + 1
  local name = run .. string.format("%02x%014x", id, n)
  local pieces = {}
  for i = 1, #before do
    pieces[#pieces + 1] = before[i]
    pieces[#pieces + 1] = name
  end
  pieces[#pieces + 1] = after
  return wrk.format(nil, nil, nil, table.concat(pieces))
end

-- One line for whoever reads it: requests, seconds, then microseconds, then errors.
function done(summary, latency)
  local e = summary.errors
  print(string.format("RESULT %d %.3f %d %d %d %d %d", summary.requests, summary.duration / 1e6,
    latency:percentile(50), latency:percentile(99), latency.max, e.status,
    e.connect + e.read + e.write + e.timeout))
end
