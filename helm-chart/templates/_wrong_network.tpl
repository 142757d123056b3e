{{/* What cannot be reached, or cannot be made on this cluster. */}}
{{- define "bellwether.wrong.network" -}}
{{- $wrong := list }}
{{- $service := .Values.service }}
{{- $gateway := .Values.gateway }}
{{- $version := .Capabilities.KubeVersion.Version }}

{{- $needs := list }}
{{- if include "bellwether.several" . }}{{ $needs = append $needs "several pods" }}{{ end }}
{{- if ne $service.type "ClusterIP" }}{{ $needs = append $needs (printf "service.type=%s" $service.type) }}{{ end }}
{{- range $name, $part := dict "ingress.http" .Values.ingress.http "ingress.grpc" .Values.ingress.grpc "gateway.grpcRoute" $gateway.grpcRoute "gateway.httpRoute" $gateway.httpRoute "serviceMonitor" .Values.serviceMonitor "podMonitor" .Values.podMonitor "relay" .Values.relay }}
{{- if $part.enabled }}{{ $needs = append $needs (printf "%s.enabled" $name) }}{{ end }}
{{- end }}
{{- if and $needs (not (include "bellwether.exposed" .)) }}
{{- $wrong = append $wrong (printf "%s: the pods listen on loopback only, because there is neither TLS nor a way to know callers: set tls and auth, insecure=true if the network keeps strangers out, or trial.enabled=true for a trial." (join ", " $needs)) }}
{{- end }}

{{- if and $service.trafficDistribution (semverCompare "<1.31.0-0" $version) }}
{{- $wrong = append $wrong (printf "service.trafficDistribution is %q, but Kubernetes %s does not know it: leave it out, or upgrade to 1.31." $service.trafficDistribution $version) }}
{{- end }}
{{- range $key := list "loadBalancerClass" "loadBalancerSourceRanges" }}
{{- if and (get $service $key) (ne $service.type "LoadBalancer") }}
{{- $wrong = append $wrong (printf "service.%s is for service.type=LoadBalancer, but the type is %s." $key $service.type) }}
{{- end }}
{{- end }}
{{- if and $service.externalTrafficPolicy (eq $service.type "ClusterIP") }}
{{- $wrong = append $wrong "service.externalTrafficPolicy is for service.type=NodePort or LoadBalancer, but the type is ClusterIP." }}
{{- end }}
{{- if and (or $service.nodePorts.grpc $service.nodePorts.http) (eq $service.type "ClusterIP") }}
{{- $wrong = append $wrong "service.nodePorts is for service.type=NodePort or LoadBalancer, but the type is ClusterIP." }}
{{- end }}

{{- range $kind := list "http" "grpc" }}
{{- with get $.Values.ingress $kind }}
{{- if and .enabled (not .hosts) }}
{{- $wrong = append $wrong (printf "ingress.%s.enabled is true, but it has no host: set ingress.%s.hosts." $kind $kind) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (or $gateway.grpcRoute.enabled $gateway.httpRoute.enabled) (not $gateway.parentRefs) }}
{{- $wrong = append $wrong "a route of the gateway is enabled, but it belongs to none: set gateway.parentRefs." }}
{{- end }}
{{- if and $gateway.grpcRoute.enabled $gateway.httpRoute.enabled (eq (toJson $gateway.grpcRoute.hostnames) (toJson $gateway.httpRoute.hostnames)) }}
{{- $wrong = append $wrong "gateway.grpcRoute and gateway.httpRoute have the same host names, which the Gateway API refuses: give each its own." }}
{{- end }}
{{- with $gateway.backendTLSPolicy }}
{{- if and .enabled (or (not .caConfigMap) (not (include "bellwether.tls" $))) }}
{{- $wrong = append $wrong "gateway.backendTLSPolicy.enabled is true, but there is nothing to verify: set gateway.backendTLSPolicy.caConfigMap and tls." }}
{{- end }}
{{- end }}

{{- $scraped := or .Values.serviceMonitor.enabled .Values.podMonitor.enabled }}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled }}
{{- $wrong = append $wrong "serviceMonitor.enabled and podMonitor.enabled are both true, so each pod would be read twice: leave one of them out." }}
{{- end }}
{{- if and $scraped (include "bellwether.auth" .) (not .Values.scrape.tokenSecret.name) (not .Values.scrape.tlsConfig) }}
{{- $wrong = append $wrong "metrics are shown only to callers who may read everything: set scrape.tokenSecret.name, or a client certificate in scrape.tlsConfig." }}
{{- end }}
{{- range $alert, $_ := .Values.prometheusRule.alerts }}
{{- $known := list }}
{{- range (fromYaml ($.Files.Get "files/alerts.yaml")).groups }}{{ range .rules }}{{ $known = append $known .alert }}{{ end }}{{ end }}
{{- if not (has $alert $known) }}
{{- $wrong = append $wrong (printf "prometheusRule.alerts has %s, but there is no such alert: take one of %s." $alert (join ", " $known)) }}
{{- end }}
{{- end }}
{{- toJson $wrong }}
{{- end }}
