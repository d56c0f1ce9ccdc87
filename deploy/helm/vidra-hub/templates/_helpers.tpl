{{- define "vidra-hub.selector" -}}
app.kubernetes.io/name: vidra-hub
{{- end }}

{{- define "vidra-hub.labels" -}}
{{ include "vidra-hub.selector" . }}
app.kubernetes.io/part-of: vidra-hub
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "vidra-hub.image" -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end }}
