// Reports the status of a unit: report HOST:PORT UNIT MESSAGE
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	bellwetherv1 "bellwether/clients/go/bellwether/v1"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: report HOST:PORT UNIT MESSAGE")
	}
	address, unit, message := os.Args[1], os.Args[2], os.Args[3]
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	application, _, _ := strings.Cut(unit, "/")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answer, err := bellwetherv1.NewReportServiceClient(connection).ReportStatus(ctx, &bellwetherv1.ReportStatusRequest{
		Application: application,
		Unit:        unit,
		Status: &bellwetherv1.StatusReport{
			Level:   bellwetherv1.Level_LEVEL_ACTIVE,
			Message: message,
			Ttl:     durationpb.New(90 * time.Second), // Report again within this time.
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%s is active, revision %d", unit, answer.Revision)
}
