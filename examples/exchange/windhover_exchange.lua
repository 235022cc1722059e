-- Frames of `windhover exchange` (framing "native") for Wireshark and tshark:
--   tshark -X lua_script:windhover_exchange.lua -r FILE -Y windhover_exchange
-- Any UDP datagram that begins with the magic number, version 1 and the right length is one. The checksum is shown, not computed.

local exchange = Proto("windhover_exchange", "Windhover exchange")
local qualities = { [0] = "GOOD", [1] = "STALE", [2] = "BAD", [3] = "SUBSTITUTED" }
local HEADER_BYTES = 64

local f = {
  version = ProtoField.uint8("windhover_exchange.version", "Version"),
  quality = ProtoField.uint8("windhover_exchange.quality", "Quality", base.DEC, qualities, 0x03),
  last = ProtoField.bool("windhover_exchange.last", "Last frame", 8, nil, 0x04),
  crc = ProtoField.uint32("windhover_exchange.crc", "CRC-32C", base.HEX),
  topic = ProtoField.uint32("windhover_exchange.topic", "Topic"),
  publisher = ProtoField.uint16("windhover_exchange.publisher", "Publisher"),
  length = ProtoField.uint16("windhover_exchange.length", "Length of the data"),
  layout = ProtoField.uint64("windhover_exchange.layout", "Layout hash", base.HEX),
  epoch = ProtoField.uint64("windhover_exchange.epoch", "Epoch"),
  sequence = ProtoField.uint64("windhover_exchange.sequence", "Sequence"),
  cycle = ProtoField.uint64("windhover_exchange.cycle", "Cycle"),
  scheduled = ProtoField.uint64("windhover_exchange.scheduled_ns", "Scheduled time, ns"),
  sent = ProtoField.uint64("windhover_exchange.sent_ns", "Send time, ns"),
  data = ProtoField.bytes("windhover_exchange.data", "Data"),
}
for _, field in pairs(f) do
  table.insert(exchange.fields, field)
end

local function is_frame(buffer)
  return buffer:len() >= HEADER_BYTES
    and buffer(0, 2):string() == "WX"
    and buffer(2, 1):uint() == 1
    and buffer(14, 2):le_uint() == buffer:reported_len() - HEADER_BYTES
end

function exchange.dissector(buffer, pinfo, tree)
  if not is_frame(buffer) then
    return 0
  end
  pinfo.cols.protocol = "EXCHANGE"
  local flags = buffer(3, 1):uint()
  local last = (flags % 8 >= 4) and ", the last" or ""
  pinfo.cols.info = string.format("topic %d from %d seq %s cycle %s %s%s", buffer(8, 4):le_uint(), buffer(12, 2):le_uint(),
    tostring(buffer(32, 8):le_uint64()), tostring(buffer(40, 8):le_uint64()), qualities[flags % 4], last)
  local part = tree:add(exchange, buffer())
  part:add(f.version, buffer(2, 1))
  part:add(f.quality, buffer(3, 1))
  part:add(f.last, buffer(3, 1))
  part:add_le(f.crc, buffer(4, 4))
  part:add_le(f.topic, buffer(8, 4))
  part:add_le(f.publisher, buffer(12, 2))
  part:add_le(f.length, buffer(14, 2))
  for at, field in ipairs({ f.layout, f.epoch, f.sequence, f.cycle, f.scheduled, f.sent }) do
    part:add_le(field, buffer(8 + 8 * at, 8))
  end
  if buffer:len() > HEADER_BYTES then
    part:add(f.data, buffer(HEADER_BYTES))
  end
  return buffer:len()
end

exchange:register_heuristic("udp", function(buffer, pinfo, tree)
  return exchange.dissector(buffer, pinfo, tree) > 0
end)
