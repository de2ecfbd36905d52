{{- define "tidings.pod" -}}
serviceAccountName: {{ .Release.Name }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
volumes:
  - name: secrets
    secret: {secretName: {{ .Values.secret.name }}, defaultMode: 0440}
  - name: data
    emptyDir: {}
  - name: tmp
    emptyDir: {}
{{- end }}

{{- define "tidings.container" -}}
image: {{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
envFrom:
  - configMapRef: {name: {{ .Release.Name }}-settings}
{{- if .Values.secret.hasPostgresPassword }}
env:
  - name: PGPASSWORD
    valueFrom:
      secretKeyRef: {name: {{ .Values.secret.name }}, key: pgpassword}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: secrets, mountPath: /run/secrets/tidings, readOnly: true}
  - {name: data, mountPath: /data}
  - {name: tmp, mountPath: /tmp}
{{- end }}
