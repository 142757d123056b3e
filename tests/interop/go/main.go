// A client of connect-go without generated code: a call, an error with its detail, and a stream, with JSON and with
// binary proto, over HTTP/1.1 and HTTP/2. Usage: connect-go-client HOST:PORT
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

type message = dynamicpb.Message

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("usage: connect-go-client HOST:PORT"))
	}
	url := "http://" + os.Args[1]
	files, err := descriptors(url)
	fail(err)
	var http2 http.Protocols
	http2.SetUnencryptedHTTP2(true)
	transports := map[string]http.RoundTripper{
		"HTTP/1.1": &http.Transport{},
		"HTTP/2":   &http.Transport{Protocols: &http2},
	}
	protocols := map[string][]connect.ClientOption{
		"Connect, JSON":  {connect.WithProtoJSON()},
		"Connect, proto": {},
		"gRPC-Web":       {connect.WithGRPCWeb()},
	}
	for version, transport := range transports {
		for protocol, options := range protocols {
			client := caller{files, &http.Client{Transport: transport}, url, options}
			fail(wrap(version+", "+protocol, client.all()))
			fmt.Printf("%s, %s: a call, an error, a stream\n", version, protocol)
		}
	}
}

type caller struct {
	files   *protoregistry.Files
	http    *http.Client
	url     string
	options []connect.ClientOption
}

func (c caller) all() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	report, request, err := c.client("ReportService", "ReportStatus",
		`{"application": "go", "unit": "go/0", "status": {"level": "LEVEL_BLOCKED", "message": "by connect-go"}}`)
	if err != nil {
		return err
	}
	answer, err := report.CallUnary(ctx, connect.NewRequest(request))
	if err != nil {
		return err
	}
	if revision := field(answer.Msg, "revision").Uint(); revision == 0 {
		return errors.New("the answer has no revision")
	}
	if err := c.refused(ctx); err != nil {
		return err
	}
	watch, request, err := c.client("ApplicationService", "WatchApplications", `{"applications": ["go"]}`)
	if err != nil {
		return err
	}
	stream, err := watch.CallServerStream(ctx, connect.NewRequest(request))
	if err != nil {
		return err
	}
	defer stream.Close()
	for _, name := range []protoreflect.Name{"upserted", "snapshot_complete"} {
		if !stream.Receive() {
			return fmt.Errorf("the stream ended before %s: %w", name, stream.Err())
		}
		event := stream.Msg().ProtoReflect()
		if !event.Has(event.Descriptor().Fields().ByName(name)) {
			return fmt.Errorf("not %s: %v", name, event)
		}
	}
	return nil
}

// Calls a method that refuses, and reads the detail of its error.
func (c caller) refused(ctx context.Context) error {
	get, request, err := c.client("ApplicationService", "GetApplication", `{"application": "nothing"}`)
	if err != nil {
		return err
	}
	_, err = get.CallUnary(ctx, connect.NewRequest(request))
	var refused *connect.Error
	if !errors.As(err, &refused) || refused.Code() != connect.CodeNotFound {
		return fmt.Errorf("not refused with not_found: %w", err)
	}
	for _, detail := range refused.Details() {
		value, err := detail.Value()
		if err != nil {
			return err
		}
		if info, ok := value.(*errdetails.ErrorInfo); ok && info.Reason == "APPLICATION_NOT_FOUND" {
			return nil
		}
	}
	return fmt.Errorf("no ErrorInfo: %v", refused.Details())
}

// Returns a client of a method, and a request of it.
func (c caller) client(service, method, text string) (*connect.Client[message, message], *message, error) {
	name := "bellwether.v1." + service
	found, err := c.files.FindDescriptorByName(protoreflect.FullName(name + "." + method))
	if err != nil {
		return nil, nil, err
	}
	schema := found.(protoreflect.MethodDescriptor)
	request := dynamicpb.NewMessage(schema.Input())
	if err := protojson.Unmarshal([]byte(text), request); err != nil {
		return nil, nil, err
	}
	fill := func(_ connect.Spec, answer any) error {
		if answer, ok := answer.(*message); ok {
			*answer = *dynamicpb.NewMessage(schema.Output())
		}
		return nil
	}
	options := append([]connect.ClientOption{connect.WithSchema(schema), connect.WithResponseInitializer(fill)},
		c.options...)
	return connect.NewClient[message, message](c.http, c.url+"/"+name+"/"+method, options...), request, nil
}

// Reads the descriptors of the server.
func descriptors(url string) (*protoregistry.Files, error) {
	answer, err := http.Get(url + "/descriptor.binpb")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	bytes, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(bytes, &set); err != nil {
		return nil, err
	}
	return protodesc.NewFiles(&set)
}

func field(of *message, name protoreflect.Name) protoreflect.Value {
	return of.Get(of.Descriptor().Fields().ByName(name))
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
