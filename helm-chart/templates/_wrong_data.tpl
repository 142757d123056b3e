{{/* A quantity as a number of bytes, because Kubernetes stores 1536Mi for 1.5Gi. */}}
{{- define "bellwether.bytes" -}}
{{- $factors := dict "" 1 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 }}
{{- $number := regexFind "^[0-9.]+" . }}
{{- mulf (float64 $number) (get $factors (trimPrefix $number .) | float64) | printf "%.0f" }}
{{- end }}

{{/*
Upgrades that would leave data behind, or that Kubernetes refuses with words of its own. They are known only where Helm
can ask the cluster, so not for `helm template`.
*/}}
{{- define "bellwether.wrong.data" -}}
{{- $wrong := list }}
{{- $full := include "bellwether.fullname" . }}
{{- $namespace := include "bellwether.namespace" . }}
{{- $stateful := lookup "apps/v1" "StatefulSet" $namespace $full }}
{{- $deployment := lookup "apps/v1" "Deployment" $namespace $full }}
{{- $claims := list }}
{{- $held := "" }}
{{- with $stateful }}
{{- $claims = .spec.volumeClaimTemplates | default list }}
{{- if $claims }}{{ $held = printf "data-%s-0" $full }}{{ end }}
{{- range .spec.template.spec.volumes }}
{{- if eq .name "data" }}{{ $held = (.persistentVolumeClaim).claimName | default $held }}{{ end }}
{{- end }}
{{- end }}
{{- $wanted := "" }}
{{- if include "bellwether.persistent" . }}{{ $wanted = .Values.persistence.existingClaim | default (printf "data-%s-0" $full) }}{{ end }}
{{- $advice := "workers report again, but history, settings, leaders and operations stay behind; set leaveDataBehind=true if that is what you want." }}

{{- if not .Values.leaveDataBehind }}
{{- if and $held (ne $held $wanted) }}
{{- $wrong = append $wrong (printf "the statuses of this release are on the claim %s, which the pods would no longer use: %s" $held $advice) }}
{{- end }}
{{- if and $deployment (not (include "bellwether.shared" .)) }}
{{- $wrong = append $wrong (printf "the statuses of this release are in Redis, which the pods would no longer use: %s" $advice) }}
{{- end }}
{{- end }}

{{- if and .Values.trial.enabled (not .Values.trial.makeSecrets) }}
{{- $made := lookup "v1" "Secret" $namespace (printf "%s-trial-server" $full) | default dict }}
{{- if eq (get (($made.metadata).annotations | default dict) "meta.helm.sh/release-name" | default "") .Release.Name }}
{{- $wrong = append $wrong "trial.makeSecrets is false, but this release has made the secrets, so Helm would delete them: leave it out." }}
{{- end }}
{{- end }}

{{- if and $claims $wanted (not .Values.persistence.existingClaim) }}
{{- $claim := first $claims }}
{{- $size := $claim.spec.resources.requests.storage }}
{{- $class := $claim.spec.storageClassName | default "" }}
{{- $noted := $claim.metadata.annotations | default dict }}
{{- if or (ne (include "bellwether.bytes" $size) (include "bellwether.bytes" .Values.persistence.size)) (and .Values.persistence.storageClass (ne $class .Values.persistence.storageClass)) (ne (toJson $claim.spec.accessModes) (toJson .Values.persistence.accessModes)) (ne (toJson $noted) (toJson .Values.persistence.annotations)) }}
{{- $wrong = append $wrong (printf "Kubernetes does not let the claim of a StatefulSet change (it has %s, class %q, %s): see UPGRADING.md of the chart for a larger claim." $size $class (join ", " $claim.spec.accessModes)) }}
{{- end }}
{{- end }}
{{- toJson $wrong }}
{{- end }}
