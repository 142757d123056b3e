{{/* The pod template of the StatefulSet and of the Deployment. */}}
{{- define "bellwether.pod" -}}
metadata:
  labels:
    {{- include "bellwether.podLabels" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  # The pod does not use the Kubernetes API, and needs no variables of other services.
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  terminationGracePeriodSeconds: {{ int .Values.terminationGracePeriodSeconds }}
  containers:
    - name: bellwether
      {{- include "bellwether.container" . | nindent 6 }}
  {{- with include "bellwether.volumes" . }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with include "bellwether.placement" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "bellwether.container" -}}
image: {{ include "bellwether.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  - serve
  - --grpc-listen={{ .Values.listenAddress }}:50051
  - --ops-listen={{ .Values.listenAddress }}:9090
  # There is no TLS and no authentication yet, so the server must be started with --insecure.
  - --insecure
  {{- if not .Values.redis.enabled }}
  - --store=embedded
  - --data-dir=/var/lib/bellwether
  {{- end }}
{{- if or .Values.redis.enabled .Values.extraEnv }}
env:
  {{- if .Values.redis.enabled }}
  - name: BELLWETHER_STORE
    valueFrom:
      secretKeyRef:
        name: {{ .Values.redis.existingSecret.name | quote }}
        key: {{ .Values.redis.existingSecret.key | quote }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
ports:
  - name: grpc
    containerPort: 50051
  - name: metrics
    containerPort: 9090
startupProbe:
  httpGet:
    path: /livez
    port: metrics
  {{- toYaml .Values.probes.startup | nindent 2 }}
# Not over gRPC: a client that used up all connections there would get the pod killed.
livenessProbe:
  httpGet:
    path: /livez
    port: metrics
  {{- toYaml .Values.probes.liveness | nindent 2 }}
readinessProbe:
  httpGet:
    path: /readyz
    port: metrics
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
securityContext:
  allowPrivilegeEscalation: false
  privileged: false
  readOnlyRootFilesystem: true
  capabilities:
    drop:
      - ALL
{{- if not .Values.redis.enabled }}
volumeMounts:
  - name: data
    mountPath: /var/lib/bellwether
{{- end }}
{{- end }}

{{/* The volumes of the pod. A claim that the StatefulSet makes is not listed here. */}}
{{- define "bellwether.volumes" -}}
{{- if .Values.redis.enabled -}}
{{- else if not (include "bellwether.persistent" .) -}}
volumes:
  - name: data
    emptyDir:
      sizeLimit: {{ .Values.persistence.size | quote }}
{{- else if .Values.persistence.existingClaim -}}
volumes:
  - name: data
    persistentVolumeClaim:
      claimName: {{ .Values.persistence.existingClaim | quote }}
{{- end }}
{{- end }}

{{- define "bellwether.placement" -}}
{{- if .Values.topologySpreadConstraints -}}
topologySpreadConstraints:
  {{- toYaml .Values.topologySpreadConstraints | nindent 2 }}
{{- else if gt (int .Values.replicas) 1 -}}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "bellwether.selectorLabels" $ | nindent 8 }}
    matchLabelKeys:
      - pod-template-hash
  {{- end }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" }}
{{- with get $.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}
