#!/bin/bash
# What Spark starts in its pods: `driver` with the arguments of spark-submit, or `executor` with the environment that the
# driver gives it. Any other command runs as it is, such as `clinker run`.
set -euo pipefail

java_options=()
while IFS= read -r variable; do
  java_options+=("${!variable}")
done < <(compgen -A variable | grep '^SPARK_JAVA_OPT_' | sort -V || true)

classpath="${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*:$PWD"
# Hadoop and the user's own settings, where they are mounted.
classpath="${HADOOP_CONF_DIR:+$HADOOP_CONF_DIR:}${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}${classpath#:}"

case "${1:-}" in
  driver)
    shift
    exec tini -s -- "$SPARK_HOME/bin/spark-submit" \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
      --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
      --deploy-mode client "$@"
    ;;
  executor)
    exec tini -s -- "${JAVA_HOME:+$JAVA_HOME/bin/}java" ${java_options[@]+"${java_options[@]}"} \
      "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classpath" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    exec tini -s -- "$@"
    ;;
esac
