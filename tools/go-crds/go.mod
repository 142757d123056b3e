// The definitions of the resources that the chart makes for others: monitors and rules for Prometheus, routes of the
// Gateway API, certificates. Nothing is compiled. The versions are pinned here, their contents in go.sum.
module bellwether/tools/crds

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/gateway-api v1.5.0
)
