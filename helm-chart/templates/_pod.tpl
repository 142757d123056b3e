{{/* The pod template of the StatefulSet and of the Deployment. */}}
{{- define "bellwether.pod" -}}
metadata:
  labels:
    {{- include "bellwether.podLabels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A new configuration restarts the pods. Certificates, tokens and roles are read again without a restart.
    checksum/config: {{ include "bellwether.configFiles" . | sha256sum }}
    {{- with include "bellwether.storeSecretVersion" . }}
    checksum/secret: {{ . }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "bellwether.serviceAccountName" . | quote }}
  # The pod does not use the Kubernetes API, and needs no variables of other services.
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with include "bellwether.pullSecrets" . }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with .Values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  terminationGracePeriodSeconds: {{ int .Values.terminationGracePeriodSeconds }}
  {{- with .Values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: bellwether
      {{- include "bellwether.container" . | nindent 6 }}
    {{- with .Values.sidecars }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "bellwether.volumes" . | trim | nindent 4 }}
  {{- with include "bellwether.placement" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}

{{/*
The version of the secrets that the server reads only when it starts, so that an upgrade after a change of them restarts
the pods. Without a cluster (`helm template`) it is unknown and left out; a hash of the secret itself would give it away.
*/}}
{{- define "bellwether.storeSecretVersion" -}}
{{- $versions := list }}
{{- if .Values.redis.enabled }}
{{- $url := include "bellwether.urlSecret" . | fromJson }}
{{- range $name := list $url.name .Values.redis.passwordSecret.name }}
{{- if $name }}
{{- with lookup "v1" "Secret" (include "bellwether.namespace" $) $name }}
{{- $versions = append $versions (printf "%s/%s" .metadata.uid .metadata.resourceVersion) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- with $versions }}{{ join " " . | sha256sum }}{{ end }}
{{- end }}

{{- define "bellwether.container" -}}
image: {{ include "bellwether.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  {{- include "bellwether.arguments" . | trim | nindent 2 }}
{{- with include "bellwether.environment" . | trim }}
env:
  {{- . | nindent 2 }}
{{- end }}
{{- with .Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: grpc
    containerPort: 50051
  - name: metrics
    containerPort: 9090
startupProbe:
  {{- include "bellwether.probe" (list . "/livez") | nindent 2 }}
  {{- toYaml .Values.probes.startup | nindent 2 }}
# Not over gRPC: a client that used up all connections there would get the pod killed.
livenessProbe:
  {{- include "bellwether.probe" (list . "/livez") | nindent 2 }}
  {{- toYaml .Values.probes.liveness | nindent 2 }}
readinessProbe:
  {{- include "bellwether.probe" (list . "/readyz") | nindent 2 }}
  {{- toYaml .Values.probes.readiness | nindent 2 }}
{{- with .Values.preStopSleepSeconds }}
lifecycle:
  preStop:
    # The image has no shell, so the kubelet sleeps.
    sleep:
      seconds: {{ int . }}
{{- end }}
{{- with .Values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  {{- include "bellwether.mounts" . | trim | nindent 2 }}
{{- end }}

{{/* The kubelet calls the address of the pod, without verifying its certificate. On loopback the program asks itself. */}}
{{- define "bellwether.probe" -}}
{{- $ := index . 0 }}
{{- if include "bellwether.exposed" $ -}}
httpGet:
  path: {{ index . 1 }}
  port: metrics
  {{- if include "bellwether.opsTLS" $ }}
  scheme: HTTPS
  {{- end }}
{{- else -}}
exec:
  command:
    - /usr/local/bin/bellwether
    - health
{{- end }}
{{- end }}

{{- define "bellwether.arguments" -}}
{{- $redis := .Values.redis }}
- serve
{{ include "bellwether.edgeArguments" . | trim }}
{{- if not (include "bellwether.shared" .) }}
- --store=embedded
- --data-dir=/var/lib/bellwether
{{- else }}
{{- with include "bellwether.storeURL" . }}
- {{ printf "--store=%s" . | quote }}
{{- end }}
{{- if $redis.enabled }}
{{- with $redis.passwordSecret }}
{{- if .name }}
- --store-password-file=/etc/bellwether/store-password/{{ .key }}
{{- end }}
{{- end }}
{{- if $redis.tls.caSecret }}
- --store-ca=/etc/bellwether/store-ca/{{ $redis.tls.caKey }}
{{- end }}
{{- if $redis.tls.certificateSecret }}
- --store-certificate=/etc/bellwether/store-certificate/tls.crt
- --store-key=/etc/bellwether/store-certificate/tls.key
{{- end }}
{{- with $redis.durability }}
- --durability={{ . }}
{{- end }}
{{- if $redis.enabled }}
{{- with $redis.prefix }}
- --store-prefix={{ . }}
{{- end }}
{{- with $redis.buckets }}
- --store-buckets={{ int . }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.settings.errorRules }}
- --error-rules=/etc/bellwether/config/error-rules.toml
{{- end }}
{{- with include "bellwether.pageArguments" . | trim }}
{{ . }}
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The ports, and who may call: the same for a server and a relay. */}}
{{- define "bellwether.edgeArguments" -}}
{{- $address := ternary .Values.listenAddress "127.0.0.1" (eq (include "bellwether.exposed" .) "true") }}
- --config=/etc/bellwether/config/bellwether.toml
- --grpc-listen={{ $address }}:50051
- --ops-listen={{ $address }}:9090
{{- if .Values.insecure }}
- --insecure
{{- end }}
{{- if include "bellwether.tls" . }}
- --tls-certificate=/etc/bellwether/tls/tls.crt
- --tls-key=/etc/bellwether/tls/tls.key
{{- if .Values.tls.ops }}
- --ops-tls
{{- end }}
{{- end }}
{{- if include "bellwether.clientCA" . }}
- --tls-client-ca=/etc/bellwether/client-ca/{{ .Values.tls.clientCA.key }}
- --tls-client-certificates={{ .Values.tls.clientCertificates | default "required" }}
{{- end }}
{{- if .Values.trial.enabled }}
- --tokens=/etc/bellwether/tls/tokens.toml
{{- else if .Values.auth.tokens.secret }}
- --tokens=/etc/bellwether/tokens/{{ .Values.auth.tokens.key }}
{{- end }}
{{- if include "bellwether.grants" . | fromJsonArray }}
- --roles=/etc/bellwether/access/roles.toml
{{- else if include "bellwether.roles" . }}
- --roles=/etc/bellwether/roles/{{ .Values.auth.roles.key }}
{{- end }}
{{- end }}

{{- define "bellwether.pageArguments" -}}
{{- if not .Values.settings.reflection }}
- --no-reflection
{{- end }}
{{- with .Values.settings.allowedOrigins }}
- {{ printf "--allowed-origins=%s" (join "," .) | quote }}
{{- end }}
{{- with .Values.settings.pageName }}
- {{ printf "--page-name=%s" . | quote }}
{{- end }}
{{- end }}

{{- define "bellwether.environment" -}}
{{- $otlp := .Values.otlp }}
{{- with include "bellwether.urlSecret" . | fromJson }}
{{- if and $.Values.redis.enabled .name }}
- name: BELLWETHER_STORE
  valueFrom:
    secretKeyRef:
      name: {{ .name | quote }}
      key: {{ .key | quote }}
{{- end }}
{{- end }}
{{- $attributes := list }}
{{- range $key, $value := $otlp.resourceAttributes }}{{ $attributes = append $attributes (printf "%s=%s" $key $value) }}{{ end }}
{{- $variables := dict "BELLWETHER_LOG" .Values.settings.log "OTEL_EXPORTER_OTLP_ENDPOINT" $otlp.endpoint "OTEL_TRACES_SAMPLER" $otlp.sampler "OTEL_TRACES_SAMPLER_ARG" $otlp.samplerArgument "OTEL_RESOURCE_ATTRIBUTES" (join "," $attributes) }}
{{- if $otlp.endpoint }}{{ $_ := set $variables "OTEL_EXPORTER_OTLP_PROTOCOL" "grpc" }}{{ end }}
{{- range $name, $value := $variables }}
{{- with $value }}
- name: {{ $name }}
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- with $otlp.headersSecret }}
{{- if .name }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom:
    secretKeyRef:
      name: {{ .name | quote }}
      key: {{ .key | quote }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "bellwether.mounts" -}}
{{- if not (include "bellwether.shared" .) }}
- name: data
  mountPath: /var/lib/bellwether
{{- end }}
{{- range include "bellwether.files" . | fromJsonArray }}
- name: {{ .name }}
  mountPath: /etc/bellwether/{{ .path }}
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The volumes of the pod. A claim that the StatefulSet makes is not listed here. */}}
{{- define "bellwether.volumes" -}}
{{- if include "bellwether.shared" . }}
{{- else if not (include "bellwether.persistent" .) }}
- name: data
  emptyDir:
    sizeLimit: {{ .Values.persistence.size | quote }}
{{- else if .Values.persistence.existingClaim }}
- name: data
  persistentVolumeClaim:
    claimName: {{ .Values.persistence.existingClaim | quote }}
{{- end }}
{{- range include "bellwether.files" . | fromJsonArray }}
- name: {{ .name }}
  {{- if .secret }}
  secret:
    secretName: {{ .secret | quote }}
    # 0440
    defaultMode: 288
  {{- else if .projected }}
  projected:
    sources:
      {{- toYaml .projected | nindent 6 }}
    defaultMode: 288
  {{- else }}
  configMap:
    name: {{ .configMap | quote }}
  {{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "bellwether.placement" -}}
{{- $selector := include "bellwether.selectorLabels" . }}
{{- if .Values.topologySpreadConstraints -}}
topologySpreadConstraints:
  {{- toYaml .Values.topologySpreadConstraints | nindent 2 }}
{{- else if include "bellwether.several" . -}}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- $selector | nindent 8 }}
    matchLabelKeys:
      - pod-template-hash
  {{- end }}
{{- end }}
{{- if .Values.affinity }}
affinity:
  {{- toYaml .Values.affinity | nindent 2 }}
{{- else if include "bellwether.several" . }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- $selector | nindent 14 }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" "hostAliases" "dnsConfig" }}
{{- with get $.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- range $key := list "priorityClassName" "runtimeClassName" "schedulerName" "dnsPolicy" }}
{{- with get $.Values $key }}
{{ $key }}: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
