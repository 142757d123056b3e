{{/* What cannot work about the pods themselves. */}}
{{- define "bellwether.wrong.workload" -}}
{{- $wrong := list }}
{{- $replicas := int .Values.replicas }}
{{- $grace := int .Values.terminationGracePeriodSeconds }}
{{- $sleep := int .Values.preStopSleepSeconds }}
{{- $drain := int .Values.settings.drainDeadlineSeconds }}
{{- $autoscaling := .Values.autoscaling }}
{{- $version := .Capabilities.KubeVersion.Version }}

{{- $name := include "bellwether.fullname" . }}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" $name) }}
{{- $wrong = append $wrong (printf "the objects would be called %q, but the name of a service starts with a letter and has only small letters, digits and hyphens: set fullnameOverride." $name) }}
{{- end }}

{{- if and (gt $replicas 1) (not (include "bellwether.shared" .)) }}
{{- $wrong = append $wrong (printf "replicas is %d, but the embedded store belongs to one process: set redis.enabled=true and the address of Redis, or replicas=1." $replicas) }}
{{- end }}
{{- if and $autoscaling.enabled (not (include "bellwether.shared" .)) }}
{{- $wrong = append $wrong "autoscaling.enabled is true, but the embedded store belongs to one process: set redis.enabled=true and the address of Redis, or leave autoscaling out." }}
{{- end }}
{{- if and $autoscaling.enabled (gt (int $autoscaling.minReplicas) (int $autoscaling.maxReplicas)) }}
{{- $wrong = append $wrong (printf "autoscaling.minReplicas is %d, but autoscaling.maxReplicas is %d: give the second at least the value of the first." (int $autoscaling.minReplicas) (int $autoscaling.maxReplicas)) }}
{{- end }}
{{- if and $autoscaling.enabled (not $autoscaling.targetCPUUtilizationPercentage) (not $autoscaling.targetMemoryUtilizationPercentage) }}
{{- $wrong = append $wrong "autoscaling.enabled is true, but it has nothing to aim at: set autoscaling.targetCPUUtilizationPercentage or autoscaling.targetMemoryUtilizationPercentage." }}
{{- end }}

{{- with .Values.updateStrategy }}
{{- $kind := ternary "Deployment" "StatefulSet" (eq (include "bellwether.shared" $) "true") }}
{{- $type := .type | default "RollingUpdate" }}
{{- $types := ternary (list "RollingUpdate" "Recreate") (list "RollingUpdate" "OnDelete") (eq $kind "Deployment") }}
{{- if not (has $type $types) }}
{{- $wrong = append $wrong (printf "updateStrategy.type is %s, but the pods are those of a %s, which has %s: take one of them." $type $kind (join " and " $types)) }}
{{- end }}
{{- range $key, $_ := .rollingUpdate }}
{{- $of := get (dict "maxSurge" "Deployment" "partition" "StatefulSet") $key | default $kind }}
{{- if or (ne $type "RollingUpdate") (ne $of $kind) }}
{{- $wrong = append $wrong (printf "updateStrategy.rollingUpdate.%s is for the type RollingUpdate%s, but the type is %s, of a %s: leave it out." $key (ternary "" (printf " of a %s" $of) (eq $of $kind)) $type $kind) }}
{{- end }}
{{- end }}
{{- end }}
{{- if le $grace (add $drain $sleep | int) }}
{{- $wrong = append $wrong (printf "terminationGracePeriodSeconds is %d, but the server drains for %d s after preStopSleepSeconds=%d: give more than %d, or it is killed while it drains." $grace $drain $sleep (add $drain $sleep)) }}
{{- end }}
{{- if and $sleep (semverCompare "<1.30.0-0" $version) }}
{{- $wrong = append $wrong (printf "preStopSleepSeconds is %d, but Kubernetes %s cannot sleep by itself: leave it at 0, or upgrade to 1.30." $sleep $version) }}
{{- end }}

{{- $own := list "BELLWETHER_GRPC_LISTEN" "BELLWETHER_OPS_LISTEN" "BELLWETHER_STORE" "BELLWETHER_STORE_PASSWORD" "BELLWETHER_STORE_PASSWORD_FILE" "BELLWETHER_STORE_CA" "BELLWETHER_STORE_CERTIFICATE" "BELLWETHER_STORE_KEY" "BELLWETHER_STORE_PREFIX" "BELLWETHER_STORE_BUCKETS" "BELLWETHER_DURABILITY" "BELLWETHER_DATA_DIR" "BELLWETHER_EPHEMERAL" "BELLWETHER_CONFIG" "BELLWETHER_ERROR_RULES" "BELLWETHER_TLS_CERTIFICATE" "BELLWETHER_TLS_KEY" "BELLWETHER_TLS_CLIENT_CA" "BELLWETHER_TLS_CLIENT_CERTIFICATES" "BELLWETHER_OPS_TLS" "BELLWETHER_TOKENS" "BELLWETHER_ROLES" "BELLWETHER_ALLOWED_ORIGINS" "BELLWETHER_NO_REFLECTION" "BELLWETHER_PAGE_NAME" "BELLWETHER_INSECURE" }}
{{- range .Values.extraEnv }}
{{- if has .name $own }}
{{- $wrong = append $wrong (printf "extraEnv has %s, but a value of the chart sets it: look for it in the list of values." .name) }}
{{- end }}
{{- end }}
{{- range .Values.extraArgs }}
{{- $variable := regexFind "^--[a-z-]+" . | trimPrefix "--" | upper | replace "-" "_" | printf "BELLWETHER_%s" }}
{{- if has $variable $own }}
{{- $wrong = append $wrong (printf "extraArgs has %s, but a value of the chart sets it: look for it in the list of values." (regexFind "^--[a-z-]+" .)) }}
{{- end }}
{{- end }}

{{- $labels := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" }}
{{- range $value := list "commonLabels" "podLabels" }}
{{- range $label, $_ := get $.Values $value }}
{{- if has $label $labels }}
{{- $wrong = append $wrong (printf "%s has %s, but the chart sets that itself: take another label, or nameOverride." $value $label) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $wrong }}
{{- end }}
