// Reports with grpc-go, and watches and explains with connect-go, until the reported change arrives.
// Usage: both HOST:PORT. It exits with 0 if everything was as expected.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	bellwetherv1 "bellwether/clients/go/bellwether/v1"
	"bellwether/clients/go/bellwether/v1/bellwetherv1connect"
)

const message = "reported with grpc-go"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: both HOST:PORT")
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
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	reports := bellwetherv1.NewReportServiceClient(connection)

	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	web := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	applications := bellwetherv1connect.NewApplicationServiceClient(web, "http://"+address)

	// A watch begins with the state that is there; the report comes while it is open.
	watch, err := applications.WatchApplications(ctx, connect.NewRequest(&bellwetherv1.WatchApplicationsRequest{
		Applications: []string{"go"},
	}))
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer watch.Close()
	report := &bellwetherv1.ReportStatusRequest{
		Application: "go",
		Unit:        "go/0",
		Status: &bellwetherv1.StatusReport{
			Level:   bellwetherv1.Level_LEVEL_BLOCKED,
			Message: message,
			Needs:   needs(),
		},
	}
	if _, err := reports.ReportStatus(ctx, report); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for watch.Receive() {
		application := watch.Msg().GetUpserted()
		if now := application.GetStatus(); now.GetMessage() == message {
			fmt.Println("watched:", now.GetLevel(), now.GetMessage())
			return errors.Join(stated(application), explain(ctx, applications), refused(ctx, reports))
		}
	}
	return fmt.Errorf("the watch ended without the report: %w", watch.Err())
}

// needs returns what must be so before the status can get better: another application at level active, and
// something outside in words.
func needs() []*bellwetherv1.Need {
	postgresql := &bellwetherv1.ApplicationNeed{Application: "postgresql"}
	return []*bellwetherv1.Need{
		{Object: &bellwetherv1.Need_Application{Application: postgresql}},
		{Object: &bellwetherv1.Need_Outside{Outside: "quota cpu of prod"}},
	}
}

// stated prints what the application needs.
func stated(application *bellwetherv1.Application) error {
	if count := len(application.GetNeeds()); count != len(needs()) {
		return fmt.Errorf("the application states %d needs", count)
	}
	for _, one := range application.GetNeeds() {
		fmt.Println("needs:", one.GetNeed())
	}
	return nil
}

func explain(ctx context.Context, applications bellwetherv1connect.ApplicationServiceClient) error {
	request := connect.NewRequest(&bellwetherv1.ExplainApplicationRequest{Application: "go"})
	answer, err := applications.ExplainApplication(ctx, request)
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	fmt.Println("explained:", answer.Msg)
	return nil
}

// refused sends a report without a unit: its error names the field, in a typed detail.
func refused(ctx context.Context, reports bellwetherv1.ReportServiceClient) error {
	_, err := reports.ReportStatus(ctx, &bellwetherv1.ReportStatusRequest{Application: "go"})
	if code := status.Code(err); code != codes.InvalidArgument {
		return fmt.Errorf("a report without a unit ended with %v", err)
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			fmt.Println("refused:", info.GetReason())
			return nil
		}
	}
	return errors.New("the error has no reason")
}
