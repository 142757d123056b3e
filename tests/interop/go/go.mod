// A client of connect-go, which tools/install builds into .tools/bin.
module bellwether/tests/interop/connect-go-client

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261026165753-2ffab32bce7e
	google.golang.org/protobuf v1.36.12
)
