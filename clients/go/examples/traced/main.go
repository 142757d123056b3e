// Reports with grpc-go and reads with connect-go in one trace: each call carries the span in which it is made.
// Usage: traced HOST:PORT. It prints the id of the trace, and exports the span of the program itself to nowhere;
// docs/metrics.md says how a collector receives both.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/otelconnect"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	bellwetherv1 "bellwether/clients/go/bellwether/v1"
	"bellwether/clients/go/bellwether/v1/bellwetherv1connect"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: traced HOST:PORT")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	otel.SetTextMapPropagator(propagation.TraceContext{})
	provider := trace.NewTracerProvider()
	defer provider.Shutdown(ctx)
	otel.SetTracerProvider(provider)

	// grpc-go: a handler of the connection adds the header to each call.
	connection, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler()))
	if err != nil {
		return err
	}
	defer connection.Close()
	reports := bellwetherv1.NewReportServiceClient(connection)

	// connect-go: an interceptor does the same.
	interceptor, err := otelconnect.NewInterceptor()
	if err != nil {
		return err
	}
	applications := bellwetherv1connect.NewApplicationServiceClient(http.DefaultClient, "http://"+address,
		connect.WithInterceptors(interceptor))

	ctx, span := otel.Tracer("example").Start(ctx, "nightly import")
	defer span.End()
	report := &bellwetherv1.ReportStatusRequest{
		Application: "go",
		Unit:        "go/0",
		Status:      &bellwetherv1.StatusReport{Level: bellwetherv1.Level_LEVEL_ACTIVE},
	}
	if _, err := reports.ReportStatus(ctx, report); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	read := connect.NewRequest(&bellwetherv1.GetApplicationRequest{Application: "go"})
	if _, err := applications.GetApplication(ctx, read); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	fmt.Println(span.SpanContext().TraceID())
	return nil
}
